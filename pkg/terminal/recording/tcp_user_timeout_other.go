//go:build !linux

package recording

import "syscall"

// setUserTimeout does nothing: only Linux has this timeout.
func setUserTimeout(syscall.RawConn, int) {}

package recording

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// setUserTimeout ends a connection whose other side acknowledges nothing for so many milliseconds (tcp(7), TCP_USER_TIMEOUT). It only saves
// time, so errors are ignored.
func setUserTimeout(c syscall.RawConn, milliseconds int) {
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, milliseconds)
	})
}

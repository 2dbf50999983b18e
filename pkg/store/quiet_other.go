//go:build !linux

package store

import "net"

// quiet does nothing where sockets have no low-water mark that polling heeds.
func quiet(net.Conn, int) {}

package feed

import (
	"net"
	"syscall"
)

// setReceiveLowWater says from how many bytes on the arrival of data on c wakes anybody up (socket(7), SO_RCVLOWAT). It is a
// matter of cost alone, so that a connection that has no such option stays as it is.
func setReceiveLowWater(c net.Conn, bytes int) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, bytes)
	})
}

package feed

import (
	"net"
	"syscall"
)

// setReceiveLowWater sets how many bytes must arrive on c before a reader is woken up (socket(7), SO_RCVLOWAT). It only
// saves work, so errors are ignored.
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

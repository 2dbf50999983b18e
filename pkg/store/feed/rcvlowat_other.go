//go:build !linux

package feed

import "net"

// setReceiveLowWater does nothing: only Linux has a low-water mark of sockets that polling heeds.
func setReceiveLowWater(net.Conn, int) {}

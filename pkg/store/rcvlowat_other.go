//go:build !linux

package store

import "net"

// setReceiveLowWater does nothing: only Linux has a low-water mark of sockets that polling heeds.
func setReceiveLowWater(net.Conn, int) {}

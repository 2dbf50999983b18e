// Package port reserves TCP ports on 127.0.0.1 for servers that have to be told which one is theirs.
//
// A port that was found by listening on ":0" and closing again is free only for a moment: the kernel may give it to another program's
// listener, or to any outgoing connection, before the server binds it.
package port

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Reserve returns a port that the kernel gives to nobody else until this process ends. A server that sets SO_REUSEADDR, as those of net
// and nearly all others do, can listen on it, end, and listen again; while none does, connections are refused.
func Reserve() (int, error) {
	port, err := bind()
	if err != nil {
		return 0, fmt.Errorf("reserve a port on 127.0.0.1: %w", err)
	}
	return port, nil
}

// bind binds a socket that never listens. Linux lets another socket share its address only if that one names the port itself, and both
// have SO_REUSEADDR.
func bind() (int, error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	port, err := bound(fd)
	if err != nil {
		return 0, errors.Join(err, os.NewSyscallError("close", syscall.Close(fd)))
	}
	return port, nil
}

func bound(fd int) (int, error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	v4, ok := address.(*syscall.SockaddrInet4)
	if !ok {
		return 0, errors.New("the socket has no IPv4 address")
	}
	return v4.Port, nil
}

package realnode

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Claim is the right to use one of the numbers of this machine's real nodes. The kernel takes it back when the process that holds it
// ends in any way.
type Claim struct {
	// Index is the number.
	Index    int
	listener net.Listener
}

// ClaimIndex takes a number whose network and interface are not used on this machine.
func ClaimIndex() (*Claim, error) {
	networks, err := usedNetworks()
	if err != nil {
		return nil, err
	}
	for index := range maxNodes {
		if networks[index] {
			continue
		}
		c, err := claim(index)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		return c, err
	}
	return nil, errors.New("all networks from 10.245.0.0/24 to 10.245.15.0/24 are in use on this machine")
}

// claim takes one number, and fails with EADDRINUSE where another process has it.
func claim(index int) (*Claim, error) {
	// An abstract socket: it has no file that could be left over.
	l, err := net.Listen("unix", claimName(index)) //nolint:noctx // it does not wait
	if err != nil {
		return nil, fmt.Errorf("claim network %d: %w", index, err)
	}
	return &Claim{index, l}, nil
}

// Release gives the number back.
func (c *Claim) Release() { _ = c.listener.Close() }

// usedNetworks returns the numbers whose network already belongs to an interface of this machine.
func usedNetworks() (map[int]bool, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this machine: %w", err)
	}
	used := map[int]bool{}
	for index := range maxNodes {
		if _, err := net.InterfaceByName(linkName(index)); err == nil {
			used[index] = true
		}
		for _, address := range addresses {
			network, ok := address.(*net.IPNet)
			used[index] = used[index] || (ok && network.Contains(net.ParseIP(hostIP(index))))
		}
	}
	return used, nil
}

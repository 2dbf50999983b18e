package egress

import (
	"errors"
	"testing"
)

func TestOnlyTCPIsDialled(t *testing.T) {
	for _, network := range []string{"udp4", "unix", "tcp", ""} {
		if err := check(network, "8.8.8.8:443", &Options{AllowLoopback: true}); !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %v", network, err)
		}
	}
	if err := check("tcp4", "not an address", &Options{AllowLoopback: true}); err == nil {
		t.Error("an unreadable address is dialled")
	}
	if err := check("tcp6", "[2606:4700::1111]:443", &Options{}); err != nil {
		t.Error(err)
	}
}

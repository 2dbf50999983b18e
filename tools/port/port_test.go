package port_test

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"kapis.dev/ks-apiserver/tools/port"
)

func TestAReservedPortIsForWhoNamesIt(t *testing.T) {
	reserved, err := port.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(reserved))
	refused := func() {
		t.Helper()
		if c, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("connect while nobody listens: got %v, %v, want a refusal", c, err)
		}
	}
	refused()
	for range 2 { // a server that starts, ends and starts again
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
		refused()
	}
}

func TestNobodyElseGetsAReservedPort(t *testing.T) {
	reserved := map[int]bool{}
	for range 500 {
		p, err := port.Reserve()
		if err != nil {
			t.Fatal(err)
		}
		if reserved[p] {
			t.Fatalf("port %d was reserved twice", p)
		}
		reserved[p] = true
	}
	for range 2000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if p := l.Addr().(*net.TCPAddr).Port; reserved[p] {
			t.Fatalf("a listener on any port got %d, which is reserved", p)
		}
	}
}

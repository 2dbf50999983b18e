package controllermanager

import (
	"net"
	"strings"
	"testing"
)

func TestATakenAddressIsToldBeforeAnythingStarts(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	if err := free(t.Context(), address); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("taken: %v, want an error that names %s", err, address)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{address, "0", ""} {
		if err := free(t.Context(), a); err != nil {
			t.Errorf("%q: %v", a, err)
		}
	}
}

// Package loopback gives the loopback interface further addresses, for tests.
package loopback

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Alias gives the loopback interface, for the time of the test, an address that an EndpointSlice may have: kube-apiserver refuses those of
// 127.0.0.0/8, and a test serves nothing to the network. 198.18.0.0/15 is for tests (RFC 2544). It is one that nothing else has: several
// tests may want one at once, in different processes, and one that was killed has left its own.
func Alias(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("DID NOT RUN: only root may give the loopback interface an address besides 127.0.0.1")
	}
	change := func(ctx context.Context, verb, address string) error {
		out, err := exec.CommandContext(ctx, "ip", "address", verb, address+"/32", "dev", "lo").CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip address %s %s: %w: %s", verb, address, err, out)
		}
		return nil
	}
	var err error
	for n := range 254 {
		address := fmt.Sprintf("198.18.53.%d", n+1)
		if err = change(t.Context(), "add", address); err != nil { // which fails for one that is there
			continue
		}
		t.Cleanup(func() {
			if err := change(context.Background(), "delete", address); err != nil {
				t.Error(err)
			}
		})
		return address
	}
	t.Fatal(err)
	return ""
}

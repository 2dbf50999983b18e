package egress_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"kapis.dev/ks-apiserver/pkg/clusterdns"
	"kapis.dev/ks-apiserver/pkg/egress"
)

// X6: the transport looks up the absolute name of a Service and no other.
func TestX6TheTransportAsksForTheAbsoluteName(t *testing.T) {
	before := clusterdns.Domain
	defer func() { clusterdns.Domain = before }()
	clusterdns.Domain = func() string { return "cluster.invalid" }
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is sent
	_, err := egress.NewTransport(egress.Options{}).DialContext(ctx, "tcp", "shop.extension-shop.svc:80")
	if of := (*net.DNSError)(nil); !errors.As(err, &of) || of.Name != "shop.extension-shop.svc.cluster.invalid." {
		t.Errorf("%v", err)
	}
}

package overview

import (
	"fmt"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
)

func BenchmarkNamespaceOverview(b *testing.B) {
	all := map[string][]any{}
	for i := range 10_000 {
		all["/api/v1/pods"] = append(all["/api/v1/pods"], object(fmt.Sprintf("ns-%d", i%100), fmt.Sprintf("p-%d", i)))
	}
	s := &Service{Store: kapistest.NewStore(b, all), Now: time.Now}
	if _, err := s.Namespace(b.Context(), "ns-7"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Namespace(b.Context(), "ns-7"); err != nil {
			b.Fatal(err)
		}
	}
}

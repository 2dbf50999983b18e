package table_test

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/table"
)

func TestATableIsForThoseWhoPreferIt(t *testing.T) { // O33
	const v1, v1beta1 = "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, v1: true, "application/json; as=Table; g=meta.k8s.io; v=v1": true,
		v1 + "," + v1beta1 + ",application/json": true, // kubectl
		v1beta1 + ",application/json":            false,
		"application/json," + v1:                 false,
		"application/json;q=0.5," + v1:           true,
		v1 + ";q=0.1,*/*":                        false,
		v1 + ";q=0":                              false,
		"text/event-stream," + v1:                true,
		"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io":           false,
		"application/json;as=Table;v=v1;g=example.com":                              false,
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io," + v1:    true,
		"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,text/html": false,
	} {
		if got := table.Requested(http.Header{"Accept": {accept}}); got != want {
			t.Errorf("%q: got %v", accept, got)
		}
	}
	plain := http.Header{"Accept": {"application/json, */*"}}
	if n := testing.AllocsPerRun(100, func() { table.Requested(plain) }); n != 0 {
		t.Errorf("a request for JSON costs %v allocations", n)
	}
}

func TestHowMuchOfItsObjectARowHas(t *testing.T) { // O33
	for include, want := range map[string]table.Included{"": table.Metadata, "Metadata": table.Metadata, "None": table.Nothing, "Object": table.Whole} {
		if f, err := table.FormOf(include); err != nil || f.Object != want {
			t.Errorf("%q: %v, %v", include, f, err)
		}
	}
	for _, include := range []string{"none", "All", "Object "} {
		if _, err := table.FormOf(include); err == nil {
			t.Errorf("%q is accepted", include)
		}
	}
}

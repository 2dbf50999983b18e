package fleetlist

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"kapis.dev/ks-apiserver/pkg/web"
)

// A request within a request says nothing about what is written to the client's connection: it is answered by a goroutine of its own.
func TestANestedAnswerIsNotOnTheConnectionOfTheOuterOne(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := web.CoalesceWrites(plain)
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", plain.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/kapis/x/v1/pods", nil)
	r = r.WithContext(web.CoalesceContext(r.Context(), conn))
	res, err := Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.Coalesce(r.Context(), 1<<20) // a long answer follows
		w.WriteHeader(http.StatusNoContent)
	}), r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	const first = 4 << 10 // which is held back of a long answer
	if _, err := conn.Write(make([]byte, first)); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, make([]byte, first)) {
		t.Errorf("%d bytes of the outer answer arrive, %v", len(got), err)
	}
}

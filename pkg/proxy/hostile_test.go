package proxy

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	words "kapis.dev/ks-apiserver/tools/hostile"
)

// kube-apiserver always sees the caller's own identity: no name becomes another on its way through a header, as a blank before system:masters would do.
func TestNoNameBecomesAnotherOnItsWay(t *testing.T) {
	asserted := 0
	for seed := range uint64(2000) {
		g := words.New(seed)
		almost := g.One(" ", "\t", "\u00a0", "") + g.One("system:masters", "kapis:global:admin") + g.One("", " ")
		u := &user.DefaultInfo{Name: g.Mixed("bob", "ann"), Groups: []string{g.Word(), almost}}
		if checkUser(u) != nil {
			continue
		}
		h := http.Header{}
		impersonate(h, u, "")
		var wire bytes.Buffer
		if err := h.Write(&wire); err != nil {
			t.Fatal(err)
		}
		wire.WriteString("\r\n")
		read, err := textproto.NewReader(bufio.NewReader(&wire)).ReadMIMEHeader()
		if err != nil {
			t.Fatalf("%q: %v", u, err)
		}
		if got := read.Get(impersonateUser); got != u.Name {
			t.Errorf("the user %q arrives as %q", u.Name, got)
		}
		for _, group := range read[impersonateGroup] {
			asserted++
			if !slices.Contains(u.Groups, group) || !relay.Assertable(group) {
				t.Errorf("a user in %q arrives in %q", u.Groups, group)
			}
		}
	}
	if asserted == 0 {
		t.Error("no group arrived")
	}
}

package request

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

func TestContextCarriesWhatWasParsedAndWhoAsks(t *testing.T) {
	if InfoFrom(t.Context()) != nil || UserFrom(t.Context()) != nil {
		t.Error("an empty context carries something")
	}
	i, u := &Info{Verb: "get"}, &user.DefaultInfo{Name: "bob"}
	ctx := WithUser(WithInfo(t.Context(), i), u)
	if InfoFrom(ctx) != i || UserFrom(ctx) != user.Info(u) {
		t.Error("the context lost what it was given")
	}
}

package request_test

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

func TestContextCarriesWhatWasParsedAndWhoAsks(t *testing.T) {
	if request.InfoFrom(t.Context()) != nil || request.UserFrom(t.Context()) != nil {
		t.Error("an empty context carries something")
	}
	i, u := &request.Info{Verb: "get"}, &user.DefaultInfo{Name: "bob"}
	ctx := request.WithUser(request.WithInfo(t.Context(), i), u)
	if request.InfoFrom(ctx) != i || request.UserFrom(ctx) != user.Info(u) {
		t.Error("the context lost what it was given")
	}
}

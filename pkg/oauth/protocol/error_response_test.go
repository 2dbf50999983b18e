package protocol

import (
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

func TestWhatPeopleAreToldHoldsNoCause(t *testing.T) {
	e := Problem(http.StatusForbidden, page.Say("error.stale"), errSecret{})
	if strings.Contains(e.detail()+e.Description, "secret") {
		t.Error(e)
	}
}

type errSecret struct{}

func (errSecret) Error() string { return "secret" }

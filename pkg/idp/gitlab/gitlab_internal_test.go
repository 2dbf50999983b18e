package gitlab

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

func TestAnEmailThatIsNotVerifiedIsNotTaken(t *testing.T) {
	for _, c := range []upstream.Claims{{"sub": "1", "email": "ceo@example.com", "email_verified": false}, {"sub": "1", "email": "ceo@example.com"}} {
		who, err := (&settings{}).person(c)
		if err != nil || who.Email != "" {
			t.Errorf("%v: %+v, %v", c, who, err)
		}
	}
}

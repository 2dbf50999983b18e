package oidc

import (
	"errors"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// S73: the time of authentication is read from the signed token, and from nowhere else.
func TestTheTimeOfTheLoginIsThatOfTheIDToken(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for name, test := range map[string]struct {
		claim any
		want  time.Time
	}{
		"AnHourAgo": {now.Add(-time.Hour).Unix(), now.Add(-time.Hour)}, "NotSaid": {nil, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := login(t, func(op *idptest.OP, settings map[string]any) {
				op.Forge = claim("auth_time", test.claim)
				op.Info = claim("auth_time", now.Unix()) // which is not signed
				settings["getUserInfo"] = true
			})
			if err != nil || !who.Authenticated.Equal(test.want) {
				t.Errorf("%+v, %v", who, err)
			}
		})
	}
	who, err := login(t, func(op *idptest.OP, _ map[string]any) { op.Forge = claim("auth_time", now.Add(20*time.Second).Unix()) })
	if err != nil || who.Authenticated.After(time.Now()) || who.Authenticated.Before(now) {
		t.Errorf("clocks that are apart: %+v, %v", who, err)
	}
	for name, bad := range map[string]any{"OfTheFuture": now.Add(time.Hour).Unix(), "Text": "1700000000", "AFraction": 1.5, "Zero": 0, "Negative": -1,
		"AList": []int{1}} {
		if who, err := login(t, func(op *idptest.OP, _ map[string]any) { op.Forge = claim("auth_time", bad) }); !errors.Is(err, idp.ErrRefused) || who != nil {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
}

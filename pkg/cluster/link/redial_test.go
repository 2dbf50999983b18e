package link_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

// A link is opened again after a pause that doubles, and soon after one that has lasted; each error is told, and which one is news.
func TestALinkIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var pauses []time.Duration
		var news []bool
		ended := time.Now()
		link.Redial{Least: time.Second, Most: 5 * time.Second}.Keep(ctx, func() error {
			pauses = append(pauses, time.Since(ended))
			defer func() { ended = time.Now() }()
			switch len(pauses) {
			case 6:
				time.Sleep(6 * time.Second)
				return nil
			case 8:
				cancel()
				return errors.New("the end")
			case 7:
				return errors.New("another")
			}
			return errors.New("it is away")
		}, func(_ error, is bool) { news = append(news, is) })
		const s = time.Second
		if want := []time.Duration{0, s, 2 * s, 4 * s, 5 * s, 5 * s, s, 2 * s}; !slices.Equal(pauses, want) {
			t.Errorf("it was waited %v, want %v", pauses, want)
		}
		if want := []bool{true, false, false, false, false, true}; !slices.Equal(news, want) {
			t.Errorf("news are %v, want %v", news, want)
		}
	})
}

// Many that dial again wait for a part of the pause each.
func TestARedialWithJitterWaitsForAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended, n := time.Now(), 0
		link.Redial{Least: time.Second, Most: time.Second, Jitter: true}.Keep(ctx, func() error {
			if pause := time.Since(ended); n > 0 && (pause <= 0 || pause > time.Second+time.Millisecond) {
				t.Errorf("it was waited %v", pause)
			}
			if n++; n == 50 {
				cancel()
			}
			ended = time.Now()
			return nil
		}, func(error, bool) {})
	})
}

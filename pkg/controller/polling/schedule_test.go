package polling_test

import (
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/controller/polling"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestReadsAreSpreadOverATenthOfTheInterval(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		var turn polling.Turn
		wait := turn.Done(noon, time.Hour, false)
		if wait < time.Hour || wait > time.Hour+6*time.Minute {
			t.Fatalf("the next read is in %v, expected an hour and at most a tenth more", wait)
		}
		if got, want := turn.Next, noon.Add(wait); !got.Equal(want) {
			t.Fatalf("the next read is at %v, expected %v", got, want)
		}
		seen[wait] = true
	}
	if len(seen) == 1 {
		t.Error("all reads are at the same time")
	}
}

func TestAReadThatFailedIsDoneAgainSoonerWithPausesThatDouble(t *testing.T) {
	var turn polling.Turn
	for i, want := range []time.Duration{
		time.Minute,
		2 * time.Minute,
		4 * time.Minute,
		8 * time.Minute,
		10 * time.Minute, // the interval
		10 * time.Minute,
	} {
		if got := turn.Done(noon, 10*time.Minute, true); got != want {
			t.Errorf("after %d failures the pause is %v, expected %v", i+1, got, want)
		}
	}
	for range 100 { // no shift is too far
		if got, want := turn.Done(noon, 1<<62, true), 1024*time.Minute; got > want || got <= 0 {
			t.Fatalf("the pause is %v, expected at most %v", got, want)
		}
	}
	turn.Done(noon, 10*time.Minute, false)
	if got, want := turn.Done(noon, 10*time.Minute, true), time.Minute; got != want {
		t.Errorf("after a success and a failure the pause is %v, expected %v", got, want)
	}
}

func TestWhatHasNoIntervalIsReadByHandOnly(t *testing.T) {
	for _, failed := range []bool{false, true} {
		var turn polling.Turn
		if wait := turn.Done(noon, 0, failed); wait != 0 || turn.Wait(noon) != 0 || turn.Due(noon.Add(24*365*time.Hour)) {
			t.Errorf("failed: %v: the next read is in %v, at %v", failed, wait, turn.Next)
		}
	}
}

func TestAReadIsDueWhenItsTimeHasCome(t *testing.T) {
	turn := polling.Turn{Next: noon}
	for claim, c := range map[string]struct {
		now  time.Time
		due  bool
		wait time.Duration
	}{
		"Before":       {now: noon.Add(-time.Minute), wait: time.Minute},
		"AMomentEarly": {now: noon.Add(-time.Millisecond), wait: time.Second},
		"Then":         {now: noon, due: true, wait: time.Second},
		"Late":         {now: noon.Add(time.Hour), due: true, wait: time.Second},
	} {
		t.Run(claim, func(t *testing.T) {
			if due, wait := turn.Due(c.now), turn.Wait(c.now); due != c.due || wait != c.wait {
				t.Errorf("due: %v, in %v; expected %v, %v", due, wait, c.due, c.wait)
			}
		})
	}
}

func TestNothingIsMadeByAChangeOfWhatIsNotKnown(t *testing.T) {
	var m polling.Memory[int]
	m.Edit("a", func(is *int) { *is = 1 })
	m.EditAll(func(is *int) { *is = 1 })
	if is, known := m.Get("a"); known || is != 0 || m.Delete("a") {
		t.Errorf("got %d, %v", is, known)
	}
}

func TestWhatIsKnownOfAnObjectIsItsOwn(t *testing.T) {
	var m polling.Memory[int]
	m.Set("a", 1)
	m.Set("b", 2)
	m.Edit("a", func(is *int) { *is += 10 })
	m.EditAll(func(is *int) { *is += 100 })
	a, _ := m.Get("a")
	b, _ := m.Get("b")
	if a != 111 || b != 102 {
		t.Errorf("got %d and %d, expected 111 and 102", a, b)
	}
	if !m.Delete("a") || m.Delete("a") {
		t.Error("an object is forgotten once")
	}
	if _, known := m.Get("b"); !known {
		t.Error("another object was forgotten, too")
	}
}

package retry

import (
	"sync"
	"time"
)

// Operation is when an operation that may succeed later is repeated: after each of these times once more.
var Operation = []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 150 * time.Second, 5 * time.Minute}

// Failures counts how often in a row an operation on an object has failed. The zero value knows of none; a restart forgets all.
type Failures struct {
	mu sync.Mutex
	of map[string]failure // by the name of the object
}

type failure struct {
	operation string
	count     int
	until     time.Time // it is not repeated before
}

// Add records that an operation on an object has failed, and returns how often it had failed before. Another operation on the object is
// counted from 0.
func (f *Failures) Add(object, operation string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.of[object]
	if last.operation != operation {
		last = failure{operation: operation}
	}
	if f.of == nil {
		f.of = map[string]failure{}
	}
	f.of[object] = failure{operation: operation, count: last.count + 1}
	return last.count
}

// Again records that an operation on an object has failed, and returns after which time it is repeated: after each of some once. It
// returns 0, and forgets the failures, where it is not.
func (f *Failures) Again(object, operation string, after []time.Duration, now time.Time) time.Duration {
	before := f.Add(object, operation)
	if before >= len(after) {
		f.Forget(object)
		return 0
	}
	f.Pause(object, now.Add(after[before]))
	return after[before]
}

// Pause records that the operation on an object that has failed last is not repeated before a moment. What is written of the failure brings
// the object back at once.
func (f *Failures) Pause(object string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.of[object]; ok {
		last.until = until
		f.of[object] = last
	}
}

// Wait returns how long an operation on an object is not repeated yet, 0 where it may be now.
func (f *Failures) Wait(object, operation string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.of[object]
	if last.operation != operation {
		return 0
	}
	return max(0, last.until.Sub(now))
}

// Forget forgets the failures of an object: an operation has succeeded, it is not done again, or the object is gone.
func (f *Failures) Forget(object string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, object)
}

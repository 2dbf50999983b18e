package retry

import "sync"

// Failures counts how often in a row an operation on an object has failed. The zero value knows of none; a restart forgets all.
type Failures struct {
	mu sync.Mutex
	of map[string]failure // by the name of the object
}

type failure struct {
	operation string
	count     int
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
	f.of[object] = failure{operation, last.count + 1}
	return last.count
}

// Forget forgets the failures of an object: an operation has succeeded, it is not done again, or the object is gone.
func (f *Failures) Forget(object string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, object)
}

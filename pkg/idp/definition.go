package idp

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// definition is the configuration of a provider in a Secret, or in an element of the list in the configuration file.
type definition struct {
	entry    *Entry
	source   string // where it is written, for messages
	created  time.Time
	settings []byte // the settings of the provider's type, until it is opened
	sum      [sha256.Size]byte
	reach    *reach
	// unverified says that the settings accept any certificate.
	unverified bool
}

// wire has the keys of a configured provider.
type wire struct {
	Name          string          `json:"name"`
	Type          string          `json:"type"`
	MappingMethod Mapping         `json:"mappingMethod"`
	DisplayName   string          `json:"displayName"`
	Hidden        bool            `json:"hidden"`
	Disabled      bool            `json:"disabled"`
	Provider      json.RawMessage `json:"provider"`
	// DisableLoginConfirmation is a key of release 3, in which "auto" asked users to confirm their user name unless this was true.
	DisableLoginConfirmation *bool `json:"disableLoginConfirmation"`
}

// maxDisplayName bounds the name of a provider on pages, in bytes.
const maxDisplayName = 256

// define reads the keys of a provider. A mistake becomes the fault of its entry, which keeps the name if that could be read,
// so that no other provider gets the name meanwhile.
func define(raw []byte, source string) *definition {
	var w wire
	err := Decode(raw, &w)
	if err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "read the provider's settings: "))
		if w.Name == "" { // a key that is there twice hides all of them
			var loose wire
			if yaml.Unmarshal(raw, &loose) == nil {
				w.Name, w.Disabled = loose.Name, loose.Disabled
			}
		}
	}
	def := &definition{source: source, reach: &reach{}, entry: &Entry{
		Name: w.Name, Type: w.Type, DisplayName: w.DisplayName, Mapping: w.mapping(), Hidden: w.Hidden, Disabled: w.Disabled, Fault: err,
	}}
	if msg := checkName(w.Name); msg != "" {
		def.entry.Name = ""
		if err == nil {
			def.entry.Fault = fmt.Errorf("name: %s", msg)
		}
		return def
	}
	if err == nil {
		def.entry.Fault = w.check()
	}
	def.unverified = w.unverified()
	def.settings = w.Provider
	def.sum = sha256.Sum256(w.Provider)
	return def
}

// checkName returns what is wrong with a name, which is part of annotations' keys and of URLs.
func checkName(name string) string {
	switch msgs := validation.IsQualifiedName(v1beta1.AnnotationIdentityProviderPrefix + name); {
	case name == "":
		return "it is missing"
	case len(msgs) > 0, len(validation.IsQualifiedName(name)) > 0, strings.Contains(name, "/"):
		return "it has to be at most 45 characters long, of letters, digits, '-', '_' and '.', and to begin and end with a letter or a digit"
	}
	return ""
}

func (w *wire) mapping() Mapping {
	switch {
	case w.MappingMethod == MapLookup:
		return MapLookup
	case w.DisableLoginConfirmation == nil:
		if w.MappingMethod == "" {
			return MapManual
		}
		return w.MappingMethod
	case *w.DisableLoginConfirmation:
		return MapAuto
	}
	if w.MappingMethod == MapAuto || w.MappingMethod == "" {
		return MapManual
	}
	return w.MappingMethod
}

// unverified reports whether the certificate of the provider is not verified. The key is the same for all types.
func (w *wire) unverified() bool {
	var s struct {
		InsecureSkipVerify bool `json:"insecureSkipVerify"`
	}
	return json.Unmarshal(w.Provider, &s) == nil && s.InsecureSkipVerify
}

func (w *wire) check() error {
	switch w.MappingMethod {
	case "", MapManual, MapAuto, MapLookup, MapMixed:
	default:
		return errors.New("mappingMethod: it is none of manual, auto, lookup and mixed")
	}
	if len(w.DisplayName) > maxDisplayName {
		return fmt.Errorf("displayName: it is longer than %d bytes", maxDisplayName)
	}
	if w.Type == "" {
		return errors.New("type: it is missing")
	}
	return nil
}

func names(types []Type) string {
	all := make([]string, len(types))
	for i, t := range types {
		all[i] = t.Name
	}
	return strings.Join(all, ", ")
}

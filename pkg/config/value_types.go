package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Duration is a length of time, written as in Go: 90s, 2h30m. 0 needs no unit.
type Duration time.Duration

// UnmarshalJSON reads a duration.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if string(b) == "0" {
		s = "0"
	} else if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s is not a duration such as 2h or 90s", b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 2h or 90s", s)
	}
	*d = Duration(v)
	return nil
}

// Bytes is an amount of memory, written as a quantity of Kubernetes: 800Mi, 2G, or a number of bytes.
type Bytes int64

// UnmarshalJSON reads an amount of memory.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	q, err := resource.ParseQuantity(strings.Trim(string(text), `"`))
	n, whole := q.AsInt64()
	if err != nil || !whole || n < 0 {
		return fmt.Errorf("%s is not an amount of memory such as 800Mi or 2Gi", text)
	}
	*b = Bytes(n)
	return nil
}

// Secret is a value that must not be printed. Any format prints a placeholder; string(s) is the value.
type Secret string

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(hidden)"
}

// GoString hides the value.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// MarshalJSON hides the value.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Seconds is a Duration that may be written as a number of seconds too.
type Seconds Duration

// UnmarshalJSON reads a duration.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var number int32 // enough for 68 years
	if json.Unmarshal(b, &number) == nil {
		*s = Seconds(time.Duration(number) * time.Second)
		return nil
	}
	return (*Duration)(s).UnmarshalJSON(b)
}

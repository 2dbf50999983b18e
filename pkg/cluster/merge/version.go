package merge

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/query"
)

// sumSize is how many bytes stand for a cluster in a version; a resource version has ten at most.
const sumSize = 6

// versions are the resource versions of clusters that a client has seen.
type versions map[[sumSize]byte]uint64

func sumOf(s *Source) (out [sumSize]byte) {
	d := sha256.Sum256(appendParts(nil, s.Name, s.UID))
	copy(out[:], d[:])
	return out
}

// appendParts appends texts with their number and lengths, so that no other texts, and no others before or after them, make the same.
func appendParts(dst []byte, parts ...string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(parts)))
	for _, s := range parts {
		dst = append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	}
	return dst
}

// of returns the version of a cluster, "" where there is none.
func (v versions) of(s *Source) string {
	if n := v[sumOf(s)]; n > 0 {
		return strconv.FormatUint(n, 10)
	}
	return ""
}

// set records the version of a cluster.
func (v versions) set(s *Source, version string) {
	if n, err := strconv.ParseUint(version, 10, 64); err == nil && n > 0 {
		v[sumOf(s)] = n
	}
}

// String returns one resource version for all clusters: opaque, of at most 16 bytes a cluster before it is encoded.
func (v versions) String() string {
	sums := make([][sumSize]byte, 0, len(v))
	for s := range v {
		sums = append(sums, s)
	}
	slices.SortFunc(sums, func(a, b [sumSize]byte) int { return slices.Compare(a[:], b[:]) })
	text := make([]byte, 0, len(v)*(sumSize+4)+1)
	text = append(text, 1)
	for _, s := range sums {
		text = binary.AppendUvarint(append(text, s[:]...), v[s])
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseVersions reads what String returns; "" and 0 are none.
func parseVersions(s string) (versions, error) {
	out := versions{}
	if s == "" || s == "0" {
		return out, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	bad := err != nil || len(text) == 0 || text[0] != 1 || len(text) > 1+maxSources*(sumSize+binary.MaxVarintLen64)
	for rest := text[min(1, len(text)):]; !bad && len(rest) > 0; {
		if len(rest) < sumSize {
			bad = true
			break
		}
		n, used := binary.Uvarint(rest[sumSize:])
		if bad = used <= 0; !bad {
			out[[sumSize]byte(rest)] = n
			rest = rest[sumSize+used:]
		}
	}
	if bad {
		return nil, query.Invalid("resourceVersion", s, "the resourceVersion of an answer over several clusters")
	}
	return out, nil
}

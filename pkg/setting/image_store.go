package setting

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ImageSlots is how many ConfigMaps there are for images, at most. Their names are fixed, so that rights can name them, and so that
	// neither etcd nor memory grows with uploads: at most 14 MiB.
	ImageSlots = 16
	// MaxImage bounds an image, in bytes. One of more than maxPart takes several slots.
	MaxImage = 2 << 20
	// maxPart is what a ConfigMap can hold, 1 MiB, less its other fields.
	maxPart = 900 << 10

	imageLabel  = "kapis.dev/platform-image"
	imagePrefix = "platform-image-"
	hashLength  = 32
)

// Image is an uploaded image. It is never changed, and its content must not be.
type Image struct {
	// Name is made of its content and its extension, Type its media type.
	Name, Type string
	// Size is in bytes.
	Size  int
	parts [][]byte
}

// WriteTo implements io.WriterTo.
func (i *Image) WriteTo(w io.Writer) (int64, error) {
	n := int64(0)
	for _, part := range i.parts {
		m, err := w.Write(part)
		if n += int64(m); err != nil {
			return n, err
		}
	}
	return n, nil
}

// images are the images in the slots.
type images struct {
	mu    sync.RWMutex
	slots map[string]slot
	whole map[string]*Image
}

// slot is a ConfigMap with an image, or a part of one.
type slot struct {
	image       string
	part, parts int
	uploaded    time.Time
	version     string
	content     []byte
}

func slotName(i int) string { return fmt.Sprintf("%s%02d", imagePrefix, i) }

func isSlot(name string) bool {
	i, err := strconv.Atoi(strings.TrimPrefix(name, imagePrefix))
	return err == nil && i >= 0 && i < ImageSlots && name == slotName(i)
}

func (x *images) set(m *corev1.ConfigMap, older olderFunc) {
	if !isSlot(m.Name) { // the memory for others would not be bounded
		return
	}
	s := slot{image: m.Data["name"], version: m.ResourceVersion, content: m.BinaryData["image"]}
	s.part, _ = strconv.Atoi(m.Data["part"])
	s.parts, _ = strconv.Atoi(m.Data["parts"])
	s.uploaded, _ = time.Parse(time.RFC3339Nano, m.Data["uploaded"])
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.slots == nil {
		x.slots, x.whole = map[string]slot{}, map[string]*Image{}
	}
	if older(s.version, x.slots[m.Name].version) {
		return
	}
	before := x.slots[m.Name].image
	x.slots[m.Name] = s
	x.assemble(before)
	x.assemble(s.image)
}

func (x *images) forget(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.slots[name].image
	delete(x.slots, name)
	x.assemble(before)
}

// assemble makes an image of its parts, if all are there and their content is that of its name.
func (x *images) assemble(name string) {
	delete(x.whole, name)
	typ := TypeOfImage(name)
	if typ == "" {
		return
	}
	out, sum := &Image{Name: name, Type: typ}, sha256.New()
	for part := 0; ; part++ {
		s := x.find(name, part)
		if s == nil || s.parts > ImageSlots {
			return
		}
		out.parts = append(out.parts, s.content)
		out.Size += len(s.content)
		_, _ = sum.Write(s.content) // a hash never fails
		if part+1 >= s.parts {
			break
		}
	}
	if strings.HasPrefix(name, hex.EncodeToString(sum.Sum(nil))[:hashLength]+".") {
		x.whole[name] = out
	}
}

func (x *images) find(name string, part int) *slot {
	for _, s := range x.slots {
		if s.image == name && s.part == part {
			return &s
		}
	}
	return nil
}

// Image returns an uploaded image, nil where there is none. Its error is a 503 while the settings are being read.
func (s *Store) Image(name string) (*Image, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	s.images.mu.RLock()
	defer s.images.mu.RUnlock()
	return s.images.whole[name], nil
}

// NameOfImage returns the name of an image: a hash of its content, and an extension such as png.
func NameOfImage(content []byte, extension string) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])[:hashLength] + "." + extension
}

// ImageObjects returns the ConfigMaps of an image; those with a resourceVersion exist already, and are replaced. They are empty slots,
// and then those of the images that were uploaded longest ago and are not named by the theme. The error is a 409 where the theme names
// too many.
func (s *Store) ImageObjects(name string, content []byte, now time.Time) ([]*corev1.ConfigMap, error) {
	theme, err := s.Theme()
	if err != nil {
		return nil, err
	}
	used := func(image string) bool {
		for _, value := range theme {
			if strings.Contains(value, image) {
				return true
			}
		}
		return false
	}
	parts := max(1, (len(content)+maxPart-1)/maxPart)
	free := s.images.free(used)
	if len(free) < parts {
		return nil, apierrors.NewConflict(corev1.Resource("configmaps"), name,
			fmt.Errorf("the theme uses as many images as there is room for, %d: let it use fewer first", ImageSlots))
	}
	out := make([]*corev1.ConfigMap, parts)
	for i := range out {
		out[i] = &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: free[i].name, Namespace: s.namespace, ResourceVersion: free[i].version,
				Labels: map[string]string{imageLabel: ""}},
			Data: map[string]string{"name": name, "part": strconv.Itoa(i), "parts": strconv.Itoa(parts), "uploaded": now.UTC().
				Format(time.RFC3339Nano)},
			BinaryData: map[string][]byte{"image": content[i*maxPart : min(len(content), (i+1)*maxPart)]},
		}
	}
	return out, nil
}

// freeSlot is a slot that may be written.
type freeSlot struct {
	name, version string
	rank          time.Time // zero for one without a usable image
}

func (x *images) free(used func(image string) bool) []freeSlot {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []freeSlot
	for i := range ImageSlots {
		name := slotName(i)
		s, there := x.slots[name]
		switch {
		case !there || x.whole[s.image] == nil:
			out = append(out, freeSlot{name, s.version, time.Time{}})
		case !used(s.image):
			out = append(out, freeSlot{name, s.version, s.uploaded})
		}
	}
	slices.SortStableFunc(out, func(a, b freeSlot) int { return a.rank.Compare(b.rank) })
	return out
}

// TookImage stores a slot from kube-apiserver's answer to its write.
func (s *Store) TookImage(m *corev1.ConfigMap) { s.images.set(m, older) }

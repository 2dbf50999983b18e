package wire

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/web"
)

// Failures collects what failed of several writes.
type Failures struct {
	first  error
	causes []metav1.StatusCause
}

// Any reports whether anything failed.
func (f *Failures) Any() bool { return f.first != nil }

// Add records the failure of a write, by its number and name.
func (f *Failures) Add(i int, name string, err error) {
	s := web.Status(err)
	if f.first == nil {
		f.first = err
	}
	f.causes = append(f.causes, metav1.StatusCause{
		Type: metav1.CauseType(s.Reason), Field: fmt.Sprintf("[%d]", i), Message: fmt.Sprintf("%.100q: %s", name, s.Message),
	})
}

// Err returns nil without failures, otherwise an error with the code of the first one, all of them as causes, and the text then.
func (f *Failures) Err(then string) error {
	if f.first == nil {
		return nil
	}
	s := web.Status(f.first).DeepCopy()
	s.Message = fmt.Sprintf("%s; %s", f.causes[0].Message, then)
	if len(f.causes) > 1 {
		s.Message = fmt.Sprintf("%s, and %d more; %s", f.causes[0].Message, len(f.causes)-1, then)
	}
	if s.Details == nil {
		s.Details = &metav1.StatusDetails{Group: Group}
	}
	s.Details.Causes = f.causes
	if known := apierrors.APIStatus(nil); !errors.As(f.first, &known) {
		return fmt.Errorf("%s: %w", then, f.first) // it is for the log, not for the client
	}
	return &apierrors.StatusError{ErrStatus: *s}
}

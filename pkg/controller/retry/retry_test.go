package retry_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

func TestResults(t *testing.T) {
	down := errors.New("down")
	for claim, c := range map[string]struct {
		of        func(time.Duration, error) (reconcile.Result, error)
		err       error
		wantAfter time.Duration
		wantErr   bool
	}{
		"SuccessWaitsAsLongAsItSays":   {of: retry.OnConflict, wantAfter: time.Hour},
		"ConflictIsNoFailure":          {of: retry.OnConflict, err: apierrors.NewConflict(schema.GroupResource{}, "x", down), wantAfter: retry.Conflict},
		"WrappedConflictIsNone":        {of: retry.OnConflict, err: fmt.Errorf("write: %w", apierrors.NewConflict(schema.GroupResource{}, "x", down)), wantAfter: retry.Conflict},
		"ObjectThatIsThereIsNoFailure": {of: retry.OnConflict, err: apierrors.NewAlreadyExists(schema.GroupResource{}, "x"), wantAfter: retry.Conflict},
		"AnyOtherErrorIsReturned":      {of: retry.OnConflict, err: down, wantErr: true},
		"MissingKindIsAnErrorToMost":   {of: retry.OnConflict, err: &meta.NoKindMatchError{}, wantErr: true},
		"MissingKindIsLookedForAgain":  {of: retry.OnMissingKind, err: &meta.NoKindMatchError{}, wantAfter: retry.Missing},
		"ConflictIsNoMissingKind":      {of: retry.OnMissingKind, err: apierrors.NewConflict(schema.GroupResource{}, "x", down), wantAfter: retry.Conflict},
		"SuccessIsNoMissingKind":       {of: retry.OnMissingKind, wantAfter: time.Hour},
		"AnyOtherErrorIsNoMissingKind": {of: retry.OnMissingKind, err: down, wantErr: true},
		"RefusedWriteIsNoMissingKind":  {of: retry.OnMissingKind, err: apierrors.NewForbidden(schema.GroupResource{}, "x", down), wantErr: true},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := c.of(time.Hour, c.err)
			if got.RequeueAfter != c.wantAfter || (err != nil) != c.wantErr {
				t.Errorf("got %v, %v; want %v, error %t", got.RequeueAfter, err, c.wantAfter, c.wantErr)
			}
		})
	}
}

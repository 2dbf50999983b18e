package status

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestErrorsHaveTheReasonOfTheirCode(t *testing.T) {
	for code, reason := range reasons {
		err := Errorf(code, "%d pods", 3)
		want := metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "3 pods"}
		if reason == "" || !equality.Semantic.DeepEqual(err.Status(), want) {
			t.Errorf("a %d is %+v, expected %+v", code, err.Status(), want)
		}
	}
	if !apierrors.IsBadRequest(BadRequestf("x")) || !apierrors.IsForbidden(Forbiddenf("x")) || !apierrors.IsNotFound(NoResource()) {
		t.Error("a constructor returns an error with another reason than its name says")
	}
}

func TestDetailsAreAddedToEachOther(t *testing.T) {
	err := RetryAfter(7, About(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", Errorf(http.StatusBadGateway, "x")))
	want := &metav1.StatusDetails{Group: "apps", Kind: "deployments", Name: "web", RetryAfterSeconds: 7}
	if got := err.ErrStatus.Details; !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("the details are %+v, expected %+v", got, want)
	}
}

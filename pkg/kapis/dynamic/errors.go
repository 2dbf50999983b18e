package dynamic

import (
	"fmt"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/stream"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

func nothingHere() error {
	return notFound(schema.GroupResource{}, "", "there is no resource at this path")
}

func notFound(gr schema.GroupResource, name, message string) error {
	return failed(http.StatusNotFound, metav1.StatusReasonNotFound, message,
		&metav1.StatusDetails{Group: gr.Group, Kind: gr.Resource, Name: name})
}

func unsupported(format string, args ...any) error {
	return failed(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, fmt.Sprintf(format, args...), nil)
}

func notAcceptable() error {
	return failed(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"what is at this path is answered as "+typeJSON+" or "+stream.EventStream+": send an Accept header that takes one of them", nil)
}

func badGateway(message string) error {
	return failed(http.StatusBadGateway, "BadGateway", message, nil)
}

func failed(code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: details,
	}}
}

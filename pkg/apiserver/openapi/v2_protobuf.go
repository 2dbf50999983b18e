package openapi

import (
	"fmt"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Numbers of the fields that are read, in openapiv2.Document and the messages below it.
const (
	pathsField       protowire.Number = 8 // of Document
	definitionsField protowire.Number = 9
	parametersField  protowire.Number = 10
	pathItemField    protowire.Number = 2 // of Paths
	namedField       protowire.Number = 1 // of Definitions and ParameterDefinitions
	nameField        protowire.Number = 1 // of NamedPathItem, NamedSchema and NamedParameter
)

// protobufWithout returns this server's document as protobuf, without what doc, a Document of kube-apiserver's, has members of the same
// name for. Of doc only the names are decoded.
func (d *documents) protobufWithout(doc []byte) ([]byte, error) {
	there := map[protowire.Number]map[string]bool{pathsField: {}, definitionsField: {}, parametersField: {}}
	err := eachMessage(doc, func(of protowire.Number, object []byte) error {
		names := there[of]
		if names == nil {
			return nil
		}
		member := namedField
		if of == pathsField {
			member = pathItemField
		}
		return eachMessage(object, func(n protowire.Number, named []byte) error {
			if n != member {
				return nil
			}
			return eachMessage(named, func(n protowire.Number, name []byte) error {
				if n == nameField {
					names[string(name)] = true
				}
				return nil
			})
		})
	})
	if err != nil {
		return nil, err
	}
	part := &openapi_v2.Document{}
	if d.v2.Paths != nil {
		part.Paths = &openapi_v2.Paths{Path: without(d.v2.Paths.Path, there[pathsField])}
	}
	if d.v2.Definitions != nil {
		part.Definitions = &openapi_v2.Definitions{AdditionalProperties: without(d.v2.Definitions.AdditionalProperties, there[definitionsField])}
	}
	if d.v2.Parameters != nil {
		part.Parameters = &openapi_v2.ParameterDefinitions{AdditionalProperties: without(d.v2.Parameters.AdditionalProperties, there[parametersField])}
	}
	part.Responses = d.v2.Responses // kube-apiserver has none
	return proto.Marshal(part)
}

// without returns the members whose names are not in names.
func without[T interface{ GetName() string }](members []T, names map[string]bool) []T {
	var left []T
	for _, m := range members {
		if !names[m.GetName()] {
			left = append(left, m)
		}
	}
	return left
}

// eachMessage calls f for each length-delimited field of a protobuf message: texts, and messages in it.
func eachMessage(message []byte, f func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("read a protobuf document: %w", protowire.ParseError(n))
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return fmt.Errorf("read a protobuf document: %w", protowire.ParseError(n))
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return fmt.Errorf("read a protobuf document: %w", protowire.ParseError(n))
		}
		if err := f(number, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

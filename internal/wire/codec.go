// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Version is the version that this build writes.
const Version = 1

// MaxBytes is the largest encoded message that Decode takes; a value from a
// network has a limit. It holds 100,000 rows of a hundred characters.
const MaxBytes = 16 << 20

// oldest is the first version that was ever written.
const oldest = 1

// Message is any of this package's messages.
type Message interface {
	validate() error
}

// FieldError tells which field of a message is wrong, its value, and what is
// allowed there.
type FieldError struct {
	Field, Value, Allowed string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Field, e.Value, e.Allowed)
}

func fieldError(field string, value any, allowed string) error {
	const most = 80 // a hostile value must not flood a log line
	text := fmt.Sprintf("%v", value)
	if s, ok := value.(string); ok {
		text = fmt.Sprintf("%q", s)
	}
	if len(text) > most {
		text = text[:most] + "…"
	}
	return &FieldError{Field: field, Value: text, Allowed: allowed}
}

// Encode validates m and returns it as JSON.
func Encode(m Message) ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return json.Marshal(m)
}

// Decode reads one message of type M from data. Within this build's own version
// and older ones an unknown field is an error; a message of the next version
// may carry fields that this build does not know. Nothing is returned of a
// message that is wrong in any part.
func Decode[M any, P interface {
	*M
	Message
}](data []byte) (M, error) {
	var none, m M
	if len(data) > MaxBytes {
		return none, fieldError("length", len(data), fmt.Sprintf("at most %d bytes", MaxBytes))
	}
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return none, fmt.Errorf("not JSON: %w", err)
	}
	if head.Version == nil {
		return none, fieldError("version", "absent", "required")
	}
	if err := checkVersion(*head.Version); err != nil {
		return none, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if *head.Version <= Version {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(&m); err != nil {
		return none, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return none, fieldError("end", "more data", "one JSON value")
	}
	if err := P(&m).validate(); err != nil {
		return none, err
	}
	return m, nil
}

func checkVersion(v int) error {
	if low := max(oldest, Version-1); v < low || v > Version+1 {
		return fieldError("version", v, fmt.Sprintf("this build reads %d to %d", low, Version+1))
	}
	return nil
}

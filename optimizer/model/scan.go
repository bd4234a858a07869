// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FieldError is bad input: the field's path, its value as written, and what was wanted instead.
type FieldError struct {
	Path, Value, Want string
}

func (e *FieldError) Error() string {
	if e.Value == "" {
		return oneLine(fmt.Sprintf("%s: %s", e.Path, e.Want))
	}
	return oneLine(fmt.Sprintf("%s: %s: %s", e.Path, e.Value, e.Want))
}

// oneLine escapes what would not print, and nothing else.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// scanner reads JSON strictly and straight into typed fields: every key is known, no key comes twice, numbers
// are finite. It knows the path of what it reads, and gives equal strings one memory, since a snapshot names
// its few thousand services and nodes a million times.
type scanner struct {
	buf    []byte
	pos    int
	path   []step
	intern map[string]string
}

// step is a key, or an index where key is empty.
type step struct {
	key   string
	index int
}

func (s *scanner) where() string {
	var b strings.Builder
	for _, p := range s.path {
		switch {
		case p.key == "":
			fmt.Fprintf(&b, "[%d]", p.index)
		case b.Len() == 0:
			b.WriteString(p.key)
		case strings.ContainsAny(p.key, `.[]/: `):
			fmt.Fprintf(&b, "[%q]", p.key)
		default:
			b.WriteString("." + p.key)
		}
	}
	if b.Len() == 0 {
		return "document"
	}
	return b.String()
}

// fail makes the error at the present path.
func (s *scanner) fail(value, want string) error {
	const longest = 60
	if len(value) > longest {
		value = strings.ToValidUTF8(value[:longest], "") + "…"
	}
	return &FieldError{Path: s.where(), Value: value, Want: want}
}

func (s *scanner) space() {
	for s.pos < len(s.buf) {
		switch s.buf[s.pos] {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return
		}
	}
}

// next is the next significant byte, not consumed; 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.pos >= len(s.buf) {
		return 0
	}
	return s.buf[s.pos]
}

// token is what stands here, for an error.
func (s *scanner) token() string {
	s.space()
	end := s.pos
	for end < len(s.buf) && end < s.pos+64 && !strings.ContainsRune(",}]\n", rune(s.buf[end])) {
		end++
	}
	if end == s.pos {
		end = min(s.pos+1, len(s.buf))
	}
	if end == s.pos {
		return "end of input"
	}
	return string(s.buf[s.pos:end])
}

func (s *scanner) expect(c byte) error {
	if s.next() != c {
		return s.fail(s.token(), fmt.Sprintf("want %q", c))
	}
	s.pos++
	return nil
}

// null consumes a null, which stands for an absent field.
func (s *scanner) null() bool {
	if s.next() == 'n' && strings.HasPrefix(string(s.buf[s.pos:min(s.pos+4, len(s.buf))]), "null") {
		s.pos += 4
		return true
	}
	return false
}

// object reads an object, calling field with each key; field must consume the value.
func (s *scanner) object(field func(key string) error) error {
	if s.null() {
		return nil
	}
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.next() == '}' {
		s.pos++
		return nil
	}
	var few [24]string
	seen := few[:0]
	for {
		key, err := s.str()
		if err != nil {
			return err
		}
		s.path = append(s.path, step{key: key})
		if len(seen) < cap(few) { // structs have fewer keys; maps check for themselves
			for _, k := range seen {
				if k == key {
					return s.fail("", "comes twice")
				}
			}
			seen = append(seen, key)
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := field(key); err != nil {
			return err
		}
		s.path = s.path[:len(s.path)-1]
		if s.next() == '}' {
			s.pos++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// array reads an array, calling item before each value; item must consume it.
func (s *scanner) array(item func(i int) error) error {
	if s.null() {
		return nil
	}
	if err := s.expect('['); err != nil {
		return err
	}
	if s.next() == ']' {
		s.pos++
		return nil
	}
	for i := 0; ; i++ {
		s.path = append(s.path, step{index: i})
		if err := item(i); err != nil {
			return err
		}
		s.path = s.path[:len(s.path)-1]
		if s.next() == ']' {
			s.pos++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// unknown is the error of a key that no one knows.
func (s *scanner) unknown() error { return s.fail("", "unknown field") }

// str reads a string.
func (s *scanner) str() (string, error) {
	if s.next() != '"' {
		return "", s.fail(s.token(), "want a string")
	}
	for i := s.pos + 1; i < len(s.buf); i++ {
		switch c := s.buf[i]; {
		case c == '"':
			raw := s.buf[s.pos+1 : i]
			s.pos = i + 1
			return s.share(raw)
		case c == '\\' || c < ' ':
			return s.escaped()
		}
	}
	return "", s.fail(s.token(), "want the end of the string")
}

func (s *scanner) share(raw []byte) (string, error) {
	if v, ok := s.intern[string(raw)]; ok {
		return v, nil
	}
	if !utf8.Valid(raw) {
		return "", s.fail(string(raw), "want UTF-8")
	}
	v := string(raw)
	s.intern[v] = v
	return v, nil
}

// escaped reads the rare string with escapes, by the standard library.
func (s *scanner) escaped() (string, error) {
	end := s.pos + 1
	for end < len(s.buf) && s.buf[end] != '"' {
		if s.buf[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s.buf) {
		return "", s.fail(s.token(), "want the end of the string")
	}
	raw := s.buf[s.pos : end+1]
	var v string
	if !utf8.Valid(raw) || json.Unmarshal(raw, &v) != nil {
		return "", s.fail(string(raw), "want a string")
	}
	s.pos = end + 1
	return s.share([]byte(v))
}

// number reads a finite number.
func (s *scanner) number() (float64, error) {
	s.space()
	end := s.pos
	for end < len(s.buf) && (s.buf[end] == '-' || s.buf[end] == '+' || s.buf[end] == '.' ||
		s.buf[end] == 'e' || s.buf[end] == 'E' || (s.buf[end] >= '0' && s.buf[end] <= '9')) {
		end++
	}
	raw := s.buf[s.pos:end]
	if len(raw) == 0 || !numeric(raw) {
		return 0, s.fail(s.token(), "want a number")
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && (errors.Is(err, strconv.ErrRange) && math.IsInf(v, 0)) {
		return 0, s.fail(string(raw), "want a finite number")
	}
	s.pos = end
	return v, nil
}

// numeric says whether raw is a JSON number: -?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?
func numeric(raw []byte) bool {
	i, n := 0, len(raw)
	digits := func() bool {
		from := i
		for i < n && raw[i] >= '0' && raw[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < n && raw[i] == '-' {
		i++
	}
	lead := i
	if !digits() || (raw[lead] == '0' && i > lead+1) {
		return false
	}
	if i < n && raw[i] == '.' {
		i++
		if !digits() {
			return false
		}
	}
	if i < n && (raw[i] == 'e' || raw[i] == 'E') {
		i++
		if i < n && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == n
}

// boolean reads true or false.
func (s *scanner) boolean() (bool, error) {
	s.space()
	for _, c := range []struct {
		text  string
		value bool
	}{{"true", true}, {"false", false}} {
		if strings.HasPrefix(string(s.buf[s.pos:min(s.pos+5, len(s.buf))]), c.text) {
			s.pos += len(c.text)
			return c.value, nil
		}
	}
	return false, s.fail(s.token(), "want true or false")
}

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"
	"unicode"
)

// maxName is the longest name: a namespace, a Service and a port name of 253,
// 253 and 63 characters, with what stands between them.
const maxName = 600

func checkName(field, name string) error {
	if name == "" {
		return fieldError(field, name, "a name")
	}
	if len(name) > maxName {
		return fieldError(field, name, "a name of at most 600 characters")
	}
	for _, r := range name {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return fieldError(field, name, "a name without blanks and control characters")
		}
	}
	return nil
}

func checkQuantity(field string, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return fieldError(field, v, "a finite number of at least 0")
	}
	return nil
}

func checkShare(field string, v float64) error {
	if math.IsNaN(v) || v < 0 || v > 1+shareTolerance {
		return fieldError(field, v, "a share, 0 to 1")
	}
	return nil
}

func checkStamp(epoch, period int64) error {
	if epoch < 0 {
		return fieldError("epoch", epoch, "at least 0")
	}
	if period < 0 {
		return fieldError("period", period, "at least 0")
	}
	return nil
}

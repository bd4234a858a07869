// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"math"
	"time"
)

func (d *decoder) text(to *string) error {
	if d.null() {
		return nil
	}
	v, err := d.str()
	*to = v
	return err
}

func (d *decoder) texts(to *[]string) error {
	if d.null() {
		return nil
	}
	*to = []string{}
	return d.array(func(int) error {
		v, err := d.str()
		*to = append(*to, v)
		return err
	})
}

func (d *decoder) flag(to *bool) error {
	if d.null() {
		return nil
	}
	v, err := d.boolean()
	*to = v
	return err
}

func (d *decoder) float(to *float64) error {
	if d.null() {
		return nil
	}
	v, err := d.number()
	*to = v
	return err
}

func (d *decoder) integer(to *int) error {
	if d.null() {
		return nil
	}
	d.space()
	from := d.pos
	v, err := d.number()
	if err != nil {
		return err
	}
	if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return d.fail(string(d.buf[from:d.pos]), "want a whole number")
	}
	*to = int(v)
	return nil
}

func (d *decoder) duration(to *Duration) error {
	if d.null() {
		return nil
	}
	text, err := d.str()
	if err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return d.fail(text, `want a duration such as "5s"`)
	}
	*to = Duration(v)
	return nil
}

func (d *decoder) quantities(to *Quantities) error {
	if d.null() {
		return nil
	}
	*to = make(Quantities)
	return d.object(func(key string) error {
		if _, twice := (*to)[key]; twice {
			return d.fail("", "comes twice")
		}
		v, err := d.number()
		if err == nil && v < 0 {
			return d.fail(fmt.Sprint(v), "want 0 or more")
		}
		(*to)[key] = v
		return err
	})
}

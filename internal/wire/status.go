// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// AgentStatus is what an agent shows of itself at its admin port.
type AgentStatus struct {
	Node       string         `json:"node"`
	Version    string         `json:"version"`
	At         time.Time      `json:"at"`
	Attachment string         `json:"attachment"`
	Epoch      int64          `json:"epoch"`
	Period     int64          `json:"period"`
	Stale      bool           `json:"stale"`
	SilentFor  string         `json:"silentFor"`
	Draining   int            `json:"draining"`
	Writes     int            `json:"writes"`
	Services   []ServerStatus `json:"services"`
}

// ServerStatus is one virtual server.
type ServerStatus struct {
	Service     string  `json:"service"`
	Address     string  `json:"address"`
	Mode        string  `json:"mode"`
	Asked       string  `json:"asked"`
	Scheduler   string  `json:"scheduler"`
	InFlight    float64 `json:"inFlight"`
	Expected    float64 `json:"expected"`
	Tasks       uint64  `json:"tasks"`
	Connections uint64  `json:"connections"`
	// Pods by name.
	Pods map[string]PodStatus `json:"pods"`
}

// PodStatus is one endpoint of a virtual server.
type PodStatus struct {
	Ratio    float64 `json:"ratio"`
	Weight   uint32  `json:"weight"`
	Measured float64 `json:"measured"`
	Active   uint32  `json:"active"`
}

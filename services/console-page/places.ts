/** The pages, in the order of the navigation. `letter` after `g` leads there; `name` is the first part of the address. */
export const PLACES = [
  { name: "flow", title: "Flow", letter: "f" },
  { name: "calls", title: "Calls", letter: "c" },
  { name: "failed", title: "Failed", letter: "x" },
  { name: "payments", title: "Payments", letter: "p" },
  { name: "endpoints", title: "Endpoints and jobs", letter: "e" },
] as const;

export type PlaceName = (typeof PLACES)[number]["name"];

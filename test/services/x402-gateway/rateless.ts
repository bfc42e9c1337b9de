import type { TomlTable } from "smol-toml";

/** Settings of a token without a known rate: its source never answers. */
export const rateless: TomlTable = {
  rate_per_native_unit: { source: "http_json", url: "https://127.0.0.1:1/", pointer: "/rate" },
};

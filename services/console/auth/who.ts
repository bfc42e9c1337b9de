import type { Role } from "../../../shared/config/operator-toml.ts";

/** Who asks, as a request has proven it. */
export type Who = {
  /** The token's name, which stands in the audit. */
  name: string;
  role: Role;
  /**
   * A page of another site cannot make a browser send a token. A session's cookie it might, and where no token is configured a
   * request needs nothing.
   */
  by: "token" | "session" | "nothing";
  /** When the session ends, unix ms. */
  until?: number;
};

/** Where no token is configured, whoever is on this machine. */
export const ANYBODY_HERE: Who = { name: "loopback", role: "operator", by: "nothing" };

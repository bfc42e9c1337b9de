import type { Role } from "../../../shared/config/operator-toml.ts";

/** The authenticated client of a request. */
export type Who = {
  /** Name of the token, which the audit log shows. */
  name: string;
  role: Role;
  /**
   * Method of authentication. A page of another site can make the browser send a session's cookie, or a request
   * without a credential, but no token. So `session` and `nothing` need a further check (same-site.ts).
   */
  by: "token" | "session" | "nothing";
  /** Time at which the session ends, unix ms. Absent without a session. */
  until?: number;
};

/** The client if no token is configured: any user of this machine. */
export const LOOPBACK_OPERATOR: Who = { name: "loopback", role: "operator", by: "nothing" };

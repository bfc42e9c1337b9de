import { hostname, userInfo } from "node:os";

/** Who sits at this terminal, for the audit: `user@host`. A container's user may have no name. */
export function operatorName(): string {
  return `${userName()}@${hostname()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}

import type { IncomingMessage } from "node:http";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Who } from "./who.ts";

const SAFE_METHODS = ["GET", "HEAD"];

/**
 * Throws `operator.cross_site` if a page of another site may have made the browser send this request. Browsers name the
 * origin of the page in Sec-Fetch-Site (Fetch Metadata) and Origin (Fetch standard), and no page can change these
 * headers. A request with a session and an unsafe method, such as POST, must have at least one of the two. Programs
 * that are not browsers have neither header, and no session.
 */
export function createAssertSameSite(publicUrl: string | undefined) {
  const publicOrigin = publicUrl === undefined ? undefined : new URL(publicUrl).origin;

  return function assertSameSite(req: IncomingMessage, { by }: Pick<Who, "by">): void {
    if (by === "token") return;
    const site = req.headers["sec-fetch-site"];
    const { origin, host } = req.headers;
    if (site !== undefined && site !== "same-origin" && site !== "none")
      throw crossSite(`Sec-Fetch-Site must be same-origin, not ${JSON.stringify(site)}`);
    if (origin !== undefined && !isOwn(origin, host))
      throw crossSite(
        `Origin ${JSON.stringify(origin)} does not match Host ${JSON.stringify(host)}; behind a proxy, set public_url in operator.toml`,
      );
    const isSameOrigin = site === "same-origin" || origin !== undefined;
    const isSafe = SAFE_METHODS.includes(req.method ?? "");
    if (by === "session" && !isSafe && !isSameOrigin)
      throw crossSite("a change with a session needs the Origin or Sec-Fetch-Site header");
  };

  /**
   * Returns whether the origin of the page is this service. A proxy may change the Host header, so the origin of
   * `public_url` counts too.
   */
  function isOwn(origin: string, host: string | undefined): boolean {
    if (origin === publicOrigin) return true;
    return (
      URL.canParse(origin) && host !== undefined && new URL(origin).host === withoutDefaultPort(origin, host)
    );
  }
}

/** Returns the host as URLs write it, without the default port of the scheme. */
function withoutDefaultPort(origin: string, host: string): string {
  const url = `${new URL(origin).protocol}//${host}`;
  return URL.canParse(url) ? new URL(url).host : host;
}

function crossSite(detail: string): AppError {
  return AppError.public("operator.cross_site", detail);
}

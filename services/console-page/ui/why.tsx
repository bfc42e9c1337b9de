import { CODES } from "../../../shared/platform/errors/codes.ts";
import { problemDetail } from "../../../shared/platform/text/problem-detail.ts";
import { adviceFor } from "../../../shared/webhook-auth/advice.ts";

/** Shows why something failed: the title of the error code, the code itself, and the reason in this case. */
export function Why({ code, reason }: { code: string; reason: string }) {
  return (
    <span class="why">
      <span class="why-title">
        {titleOf(code)} <code class="muted">{code}</code>
      </span>
      <span class="why-reason muted" title={reason}>
        {problemDetail(reason)}
      </span>
    </span>
  );
}

export function titleOf(code: string): string {
  return Object.hasOwn(CODES, code) ? CODES[code as keyof typeof CODES].title : code;
}

/** Formats the cause of a failure on one line: the title of the error code, and the reason in this case. */
export function problemWords(code: string, reason: string): string {
  return reason === "" ? titleOf(code) : `${titleOf(code)}: ${problemDetail(reason)}`;
}

/** Explains in words why the credential of a webhook was refused. */
export function credentialFault(reason: string): string {
  return adviceFor({ code: "webhook.credential_rejected", reason, credential: null })?.says ?? reason;
}

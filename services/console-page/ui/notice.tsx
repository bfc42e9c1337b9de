import type { ComponentChildren } from "preact";
import type { Refused } from "../api/ask.ts";

export type Tone = "good" | "warn" | "bad" | "neutral" | "accent";

type Action = { name: string; run: () => void };

/** Says what is wrong, and what to do about it. */
export function Notice(props: { tone: Tone; title: string; action?: Action; children?: ComponentChildren }) {
  const { tone, title, action, children } = props;
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      <div>
        <p class="notice-title">{title}</p>
        {children !== undefined && <div class="notice-text">{children}</div>}
      </div>
      {action !== undefined && (
        <button type="button" onClick={action.run}>
          {action.name}
        </button>
      )}
    </div>
  );
}

/**
 * Says why an act failed. If no answer came, or an error of the server, the act may have been done. Then the notice
 * says that the outcome is unknown.
 */
export function ActionFailed({ refused: { status, detail }, title }: { refused: Refused; title: string }) {
  const isKnown = status !== 0 && status < 500;
  return (
    <Notice tone="bad" title={isKnown ? title : "The outcome is unknown"}>
      {isKnown ? detail : `${asSentence(detail)} Check whether it took effect before you repeat it.`}
    </Notice>
  );
}

/** Ends the text of an error with a full stop, if it has none, so that another sentence can follow. */
export function asSentence(detail: string): string {
  return detail.replace(/[.]?$/, ".");
}

/** Fills an empty list: says why it is empty, and what to do next. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children !== undefined && <div class="muted">{children}</div>}
    </div>
  );
}

/** Shows a state as a word with a colour. */
export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { type Refused, toRefused } from "./api/ask.ts";
import type { Overview } from "./api/flow.ts";
import { NamesProvider, useReadNames } from "./api/names.ts";
import { failedIn, OverviewProvider, useLiveOverview } from "./api/overview.ts";
import { notDoneIn } from "./api/payments.ts";
import { type SessionView, signOut, useSession } from "./api/session.ts";
import { PAGES } from "./pages.ts";
import { ShortcutHelp, useShortcuts } from "./shortcuts.tsx";
import { Drawing, Icon } from "./ui/icons.tsx";
import { NavCount, type Waiting } from "./ui/nav-count.tsx";
import { Notice } from "./ui/notice.tsx";
import { ThemeSwitch } from "./ui/theme.tsx";
import { ZoneName, ZoneSwitch } from "./ui/zone.tsx";
import { linkTo } from "./url-fragment.ts";

type Props = { current: string; onSignedOut: () => void; children: ComponentChildren };

/** Frame around every page: the navigation and the signed-in user. */
export function Frame({ current, onSignedOut, children }: Props) {
  const main = useRef<HTMLElement>(null);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [notLeft, setNotLeft] = useState<Refused | undefined>();
  const overview = useLiveOverview();
  const names = useReadNames();
  const leave = async () => {
    try {
      await signOut();
      onSignedOut();
    } catch (error) {
      setNotLeft(toRefused(error));
    }
  };
  useShortcuts(() => setHelpOpen(true));
  return (
    <div class="frame">
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to content
      </button>
      <header class="side">
        <a class="brand" href={linkTo([])}>
          <Icon name="gate" /> Postern
        </a>
        <nav aria-label="Pages">
          <ul>
            {PAGES.map(({ name, title, letter, icon }) => (
              <li key={name}>
                <a
                  href={linkTo([name])}
                  aria-current={name === current ? "page" : undefined}
                  aria-keyshortcuts={`g ${letter}`}
                >
                  <Drawing path={icon} />
                  <span>{title}</span>
                  <NavCount waiting={overview.data && waitingAt(name, overview.data)} />
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <SideFoot onHelp={() => setHelpOpen(true)} onSignOut={leave} />
      </header>
      <main id="content" ref={main} tabIndex={-1}>
        {notLeft !== undefined && (
          <Notice tone="bad" title="You are still logged in" action={{ name: "Log out", run: leave }}>
            Your session in this browser stays valid until it expires. {notLeft.detail}
          </Notice>
        )}
        <OverviewProvider value={overview}>
          <NamesProvider value={names}>{children}</NamesProvider>
        </OverviewProvider>
      </main>
      {isHelpOpen && <ShortcutHelp onClose={() => setHelpOpen(false)} />}
    </div>
  );
}

/**
 * Returns the number of items on a page that wait for an operator, such as failed calls. The navigation shows it beside
 * the page's name.
 */
function waitingAt(name: string, overview: Overview): Waiting | undefined {
  if (name === "failed") return { count: failedIn(overview), isAtLeast: false };
  if (name !== "payments") return undefined;
  const { review, disputed, refunds } = overview.payments;
  const { count, isAtLeast } = notDoneIn(refunds);
  return { count: review.count + disputed.count + count, isAtLeast };
}

/**
 * Describes the user's role. A console without tokens has only one session, which never ends: everyone on its machine
 * uses it.
 */
function roleText({ role, ends_at }: SessionView): string {
  if (ends_at === null) return "anyone on this machine";
  return role === "operator" ? "Operator" : "Viewer (read-only)";
}

function SideFoot({ onHelp, onSignOut }: { onHelp: () => void; onSignOut: () => void }) {
  const session = useSession();
  return (
    <div class="side-foot">
      <p class="who">
        <span class="who-name">{session?.ends_at === null ? "no login" : session?.name}</span>
        <span class="muted small">{session !== undefined && roleText(session)}</span>
      </p>
      <div class="side-tools">
        <ThemeSwitch />
        <ZoneSwitch />
        <button
          type="button"
          class="icon-button"
          onClick={onHelp}
          aria-label="Keyboard shortcuts"
          title="Keyboard shortcuts (?)"
        >
          <Icon name="keyboard" />
        </button>
        {session?.ends_at != null && (
          <button type="button" class="icon-button" onClick={onSignOut} aria-label="Log out" title="Log out">
            <Icon name="leave" />
          </button>
        )}
      </div>
      <ZoneName />
    </div>
  );
}

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { type Refused, toRefused } from "./api/ask.ts";
import type { Overview } from "./api/flow.ts";
import { failedIn, OverviewProvider, useLiveOverview } from "./api/overview.ts";
import { signOut, useSession } from "./api/session.ts";
import { PLACES } from "./places.ts";
import { linkTo } from "./route.ts";
import { Icon } from "./ui/icons.tsx";
import { Notice } from "./ui/notice.tsx";
import { shortCount } from "./ui/number.ts";
import { ShortcutHelp, useShortcuts } from "./ui/shortcuts.tsx";
import { ThemeSwitch } from "./ui/theme.tsx";
import { zoneName } from "./ui/time.tsx";

type Props = { current: string; onSignedOut: () => void; children: ComponentChildren };

/** What stands around every page: where one can go, and who one is. */
export function Frame({ current, onSignedOut, children }: Props) {
  const main = useRef<HTMLElement>(null);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [notLeft, setNotLeft] = useState<Refused | undefined>();
  const overview = useLiveOverview();
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
        Skip to the content
      </button>
      <header class="side">
        <a class="brand" href={linkTo([])}>
          <Icon name="gate" /> Postern
        </a>
        <nav aria-label="Pages">
          <ul>
            {PLACES.map(({ name, title, letter }) => (
              <li key={name}>
                <a
                  href={linkTo([name])}
                  aria-current={name === current ? "page" : undefined}
                  aria-keyshortcuts={`g ${letter}`}
                >
                  <Icon name={name} />
                  <span>{title}</span>
                  <Count count={overview.data && waitingAt(name, overview.data)} />
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
            {notLeft.detail} Until the session is ended, whoever has this browser can go on with it.
          </Notice>
        )}
        <OverviewProvider value={overview}>{children}</OverviewProvider>
      </main>
      {isHelpOpen && <ShortcutHelp onClose={() => setHelpOpen(false)} />}
    </div>
  );
}

/** How much waits for somebody at a page. */
function waitingAt(name: string, overview: Overview): number {
  if (name === "failed") return failedIn(overview);
  return name === "payments" ? overview.payments.review.count : 0;
}

function Count({ count = 0 }: { count: number | undefined }) {
  if (count === 0) return null;
  return (
    <span class="nav-count" title={String(count)}>
      {shortCount(count)}
      <span class="hidden"> wait for somebody</span>
    </span>
  );
}

function SideFoot({ onHelp, onSignOut }: { onHelp: () => void; onSignOut: () => void }) {
  const session = useSession();
  return (
    <div class="side-foot">
      <p class="who">
        <span class="who-name">{session?.name}</span>
        <span class="muted small">
          {session?.role === "operator" ? "may change things" : "may only look"}
        </span>
      </p>
      <div class="side-tools">
        <ThemeSwitch />
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
      <p class="muted small zone">Times are in {zoneName()}</p>
    </div>
  );
}

import { useEffect, useRef } from "preact/hooks";
import { PAGES } from "./pages.ts";
import { Dialog } from "./ui/dialog.tsx";
import { isNotForPage } from "./ui/key-press.ts";
import { goTo, linkTo } from "./url-fragment.ts";

/** Time in ms within which the user must press the letter after `g`. */
const CHORD_MS = 1500;

/**
 * Handles the keyboard shortcuts: `g` and then a letter opens a page, `/` focuses the search field, and `?` opens the
 * help. The listener is added only once. So a `g` is not lost if the page is rendered again before the letter is
 * pressed.
 */
export function useShortcuts(onHelp: () => void): void {
  const help = useRef(onHelp);
  help.current = onHelp;
  useEffect(() => {
    let begunAt = Number.NEGATIVE_INFINITY;
    const press = (event: KeyboardEvent): void => {
      if (isNotForPage(event)) return;
      const isSecond = event.timeStamp - begunAt < CHORD_MS;
      begunAt = event.key === "g" ? event.timeStamp : Number.NEGATIVE_INFINITY;
      const act = isSecond ? linkForLetter(event.key) : { "/": focusSearch, "?": help.current }[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}

function linkForLetter(letter: string): (() => void) | undefined {
  const page = PAGES.find((each) => each.letter === letter);
  return page && (() => goTo(linkTo([page.name])));
}

/** Focuses the search field of the current page. If the page has none, opens the Calls page and focuses its search field. */
function focusSearch(): void {
  const own = document.querySelector<HTMLInputElement>("input[type=search]");
  if (own !== null) own.focus();
  else goTo(linkTo(["calls"], { focus: "search" }));
}

export function ShortcutHelp({ onClose }: { onClose: () => void }) {
  const keys: [string[], string][] = [
    ...PAGES.map(({ letter, title }): [string[], string] => [["g", letter], title]),
    [["/"], "Search"],
    [["j"], "Next row"],
    [["k"], "Previous row"],
    [["Enter"], "Open row"],
    [["x"], "Select row"],
    [["Esc"], "Close or clear selection"],
    [["?"], "Keyboard shortcuts"],
  ];
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="keys">
        {keys.map(([pressed, what]) => (
          <div key={what}>
            <dt>
              {pressed.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

import { useState } from "preact/hooks";
import { Icon } from "./icons.tsx";

const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "postern.theme";

export function storedTheme(): Theme {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? "system";
  } catch {
    return "system"; // the browser blocks storage for this site
  }
}

export function applyTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  window.dispatchEvent(new Event("themechange"));
}

const NEXT = { system: "light", light: "dark", dark: "system" } as const;
const ICONS = { system: "contrast", light: "sun", dark: "moon" } as const;

/** Switches between the light theme, the dark one, and that of the system. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(storedTheme);
  const change = () => {
    const next = NEXT[theme];
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Without storage, the choice holds until the page is loaded again.
    }
    setTheme(next);
    applyTheme(next);
  };
  const label = `Theme: ${theme}`;
  return (
    <button type="button" class="icon-button" onClick={change} aria-label={label} title={label}>
      <Icon name={ICONS[theme]} />
    </button>
  );
}

"""The three tables of a first hour: houses (text, gaps, dates, an id), fraud (6 % positives) and counts."""

import numpy as np
import pandas as pd

DISTRICTS = ("north", "east", "south", "west", "harbour")


def houses(n: int = 600, seed: int = 0) -> pd.DataFrame:
    """Prices of houses: an id, the day of sale, text and numbers with gaps, true/false with gaps, and a nonlinearity.

    Log price has noise of standard deviation 0.12; its slope in area changes sign with the distance.
    """
    random = np.random.default_rng(seed)
    area = np.exp(random.normal(4.6, 0.35, n))
    rooms = np.clip(np.round(area / 28 + random.normal(0, 0.8, n)), 1, None)
    distance = random.gamma(2.0, 4.0, n)
    built = random.integers(1900, 2022, n)
    place = random.choice(len(DISTRICTS), n, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    days = np.sort(random.integers(0, 5 * 365, n))
    garden = random.random(n) < 0.4
    price = 11.5 + 1.4 * np.log(area / 100) * np.tanh((12 - distance) / 5) - 0.02 * distance
    price += np.array([0.0, 0.1, -0.1, 0.2, 0.45])[place] + 0.1 * garden + 6e-5 * days
    price += 0.3 * ((built - 1960) / 60) ** 2 + 0.12 * random.normal(size=n)
    frame = pd.DataFrame(
        {
            "id": np.arange(1, n + 1),
            "sold": pd.Timestamp("2018-01-01") + pd.to_timedelta(days, unit="D"),
            "district": np.array(DISTRICTS, object)[place],
            "area": np.round(area, 1),
            "rooms": rooms,
            "distance": np.round(distance, 2),
            "built": built,
            "garden": np.where(garden, "true", "false").astype(object),
            "price": np.round(np.exp(price), -2),
        }
    )
    frame["sold"] = frame["sold"].dt.strftime("%Y-%m-%d")
    for name, share in (("area", 0.04), ("rooms", 0.07), ("district", 0.05), ("garden", 0.1)):
        frame.loc[random.random(n) < share, name] = None
    return frame


def fraud(n: int = 1500, seed: int = 0) -> pd.DataFrame:
    """Payments of which about 6 % are fraud, a part of it recognisable: large amounts by night, new cards."""
    random = np.random.default_rng(seed)
    amount = np.exp(random.normal(3.5, 1.1, n))
    hour = random.integers(0, 24, n)
    age = random.gamma(2.0, 250.0, n)
    country = random.choice(["DE", "FR", "US", "BR"], n, p=[0.5, 0.2, 0.2, 0.1])
    night = (hour < 5).astype(float)
    score = -4.45 + 1.1 * (np.log(amount) - 3.5) + 2.2 * night * (amount > 60) + 1.6 * (age < 150)
    score += 1.0 * (country == "BR") + 0.8 * random.normal(size=n)
    yes = random.random(n) < 1 / (1 + np.exp(-score))
    return pd.DataFrame(
        {
            "payment_id": [f"P{i:07d}" for i in random.permutation(10 * n)[:n]],
            "amount": np.round(amount, 2),
            "hour": hour,
            "card_age_days": np.round(age),
            "country": country,
            "fraud": np.where(yes, "yes", "no"),
        }
    )


def counts(n: int = 800, seed: int = 0) -> pd.DataFrame:
    """Rentals a day, negative binomial with dispersion 0.3 around a mean of 0.2 to 40: many zeros, a long tail."""
    random = np.random.default_rng(seed)
    temperature = random.normal(15, 8, n)
    weekend = random.random(n) < 2 / 7
    rain = np.where(random.random(n) < 0.6, 0.0, random.gamma(1.5, 4.0, n))
    mean = np.exp(1.4 + 1.2 * np.tanh((temperature - 12) / 8) + 0.5 * weekend - 0.12 * rain)
    size = 1 / 0.3
    return pd.DataFrame(
        {
            "temperature": np.round(temperature, 1),
            "weekend": weekend,
            "rain": np.round(rain, 1),
            "season": random.choice(["spring", "summer", "autumn", "winter"], n),
            "rentals": random.poisson(random.gamma(size, mean / size)),
        }
    )

"""What the shop sells: kinds of products, each with attributes, options and prices that make sense for it.

No two options of one kind share a value, so that a value alone says what is chosen. Attributes that exclude each other stand in one
string, separated by `|`: a product has one of them.
"""

from dataclasses import dataclass

from envs.web.shop.options import OPTIONS

REQUIRED = ("machine washable|hand wash only", "long lasting", "easy care")
SKIN = ("cruelty free", "paraben free", "sulfate free", "dermatologist tested", "plant based", "alcohol free", "long lasting")
SNACK = ("gluten free", "non gmo", "low sodium", "low sugar|sugar free", "keto friendly", "plant based", "kosher certified", "high protein")
DEVICE = ("easy to install", "fast charging", "heavy duty", "carrying case included", "water resistant|water proof", "lightweight")
HOME = ("easy to clean", "easy to assemble|fully assembled", "space saving", "heavy duty", "eco friendly", "stain resistant")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of product, for example men's dress shirts."""

    name: str
    """What buyers call it, and look for."""
    path: tuple[str, str, str]
    """Department, section and shelf."""
    price: tuple[int, int]
    """Dollars, from and to; below 900."""
    materials: tuple[str, ...]
    options: tuple[str, ...]
    """Names in `OPTIONS`."""
    attributes: tuple[str, ...]
    """What a product of this kind can be; one string may name several that exclude each other."""
    uses: tuple[str, ...]
    """What it is for."""

    def __post_init__(self) -> None:
        values = [value for option in self.options for value in OPTIONS[option]]
        if len(set(values)) < len(values):
            raise ValueError(f"two options of {self.name} share a value")


_CLOTH = ("cotton", "linen", "polyester", "wool", "bamboo viscose")
_WEAR = ("color", "clothing size")
_DAY = ("everyday wear", "the office", "travel", "weekends")
_CARE = ("daily use", "sensitive skin", "dry skin", "travel")
_EAT = ("breakfast", "lunch boxes", "long hikes", "guests")
_TECH = ("the desk", "travel", "the car", "the living room")
_ROOMS = ("the living room", "the bedroom", "small apartments", "the office")

_FASHION = (
    Kind(
        "men's dress shirt",
        ("fashion", "men", "shirts"),
        (18, 70),
        _CLOTH[:3],
        _WEAR,
        (*REQUIRED, "slim fit|regular fit|relaxed fit", "long sleeve|short sleeve", "button closure", "wrinkle free"),
        _DAY,
    ),
    Kind(
        "men's jeans",
        ("fashion", "men", "trousers"),
        (25, 95),
        ("denim", "stretch denim"),
        ("color", "waist"),
        (*REQUIRED, "slim fit|straight leg|relaxed fit", "high waist|mid rise", "zipper closure|button closure", "five pockets"),
        _DAY,
    ),
    Kind(
        "men's hoodie",
        ("fashion", "men", "sweaters"),
        (20, 80),
        ("fleece", "cotton", "polyester"),
        _WEAR,
        (*REQUIRED, "drawstring closure|zipper closure", "loose fit|regular fit", "soft lining", "kangaroo pocket"),
        _DAY,
    ),
    Kind(
        "men's running shoes",
        ("fashion", "men", "shoes"),
        (35, 140),
        ("mesh", "knit fabric"),
        ("color", "shoe size"),
        ("rubber sole|foam sole", "lace closure|slip on", "arch support", "anti slip", "breathable", "lightweight"),
        ("long runs", "the gym", "walking", "travel"),
    ),
    Kind(
        "women's blouse",
        ("fashion", "women", "tops"),
        (15, 65),
        ("chiffon", "cotton", "silk", "satin"),
        _WEAR,
        (*REQUIRED, "long sleeve|short sleeve|sleeveless", "v neck|crew neck|boat neck", "loose fit|regular fit", "floral print"),
        _DAY,
    ),
    Kind(
        "women's leggings",
        ("fashion", "women", "trousers"),
        (14, 60),
        ("spandex", "nylon", "cotton"),
        _WEAR,
        (*REQUIRED, "high waist|mid rise", "tummy control", "moisture wicking", "side pockets", "elastic waistband"),
        ("yoga", "the gym", "lounging", "travel"),
    ),
    Kind(
        "women's winter coat",
        ("fashion", "women", "coats"),
        (50, 220),
        ("wool", "down", "polyester"),
        _WEAR,
        (
            "faux fur lining|fleece lining",
            "zipper closure|button closure",
            "wind proof",
            "water resistant",
            "detachable hood",
            "dry clean only",
        ),
        ("cold days", "city walks", "travel", "skiing"),
    ),
    Kind(
        "women's sandals",
        ("fashion", "women", "shoes"),
        (20, 90),
        ("leather", "faux leather", "cork"),
        ("color", "shoe size"),
        ("open toe|closed toe", "ankle strap|slip on", "arch support", "anti slip", "memory foam", "low heel|flat"),
        _DAY,
    ),
    Kind(
        "kids' backpack",
        ("fashion", "kids", "bags"),
        (15, 55),
        ("nylon", "canvas", "polyester"),
        ("color",),
        ("water resistant|water proof", "padded straps", "laptop sleeve", "lightweight", "reflective strips", "chest clip"),
        ("school", "day trips", "travel", "sports"),
    ),
)
_BEAUTY = (
    Kind(
        "face moisturizer",
        ("beauty", "skin care", "moisturizers"),
        (8, 60),
        ("aloe", "shea butter", "hyaluronic acid"),
        ("scent", "bottle"),
        (*SKIN, "oil free", "anti aging|for teen skin", "spf protection"),
        _CARE,
    ),
    Kind(
        "hair shampoo",
        ("beauty", "hair care", "shampoos"),
        (6, 40),
        ("argan oil", "tea tree oil", "keratin"),
        ("scent", "bottle"),
        (*SKIN, "color safe", "anti dandruff|volumizing|hydrating", "silicone free"),
        _CARE,
    ),
    Kind(
        "body lotion",
        ("beauty", "skin care", "lotions"),
        (6, 35),
        ("cocoa butter", "shea butter", "oat milk"),
        ("scent", "bottle", "pack"),
        (*SKIN, "fast absorbing", "non greasy", "fragrance free"),
        _CARE,
    ),
    Kind(
        "lip balm",
        ("beauty", "make up", "lips"),
        (3, 20),
        ("beeswax", "coconut oil", "shea butter"),
        ("flavor", "pack"),
        (*SKIN, "high gloss|matte", "spf protection", "tinted"),
        _CARE,
    ),
    Kind(
        "nail polish",
        ("beauty", "make up", "nails"),
        (4, 25),
        ("gel", "lacquer"),
        ("color", "bottle"),
        (*SKIN, "quick dry", "high gloss|matte", "chip resistant"),
        ("parties", "daily use", "gifts", "salons"),
    ),
    Kind(
        "electric toothbrush",
        ("beauty", "oral care", "toothbrushes"),
        (18, 120),
        ("bamboo fiber", "nylon bristles"),
        ("color",),
        (
            "rechargeable|battery powered",
            "soft bristles|medium bristles",
            "two minute timer",
            "travel case included",
            "teeth whitening",
            "water proof",
        ),
        ("daily use", "sensitive gums", "travel", "families"),
    ),
)
_GROCERY = (
    Kind(
        "granola bars",
        ("grocery", "snacks", "bars"),
        (5, 35),
        ("oat", "almond", "quinoa"),
        ("flavor", "pack"),
        (*SNACK, "individually wrapped", "high fiber", "nut free|with whole nuts"),
        _EAT,
    ),
    Kind(
        "protein powder",
        ("grocery", "nutrition", "powders"),
        (18, 80),
        ("whey", "pea protein", "soy protein"),
        ("flavor", "weight"),
        (*SNACK, "easy to mix", "lactose free", "no artificial sweeteners"),
        ("training", "breakfast", "recovery", "travel"),
    ),
    Kind(
        "trail mix",
        ("grocery", "snacks", "nuts"),
        (6, 40),
        ("cashew", "almond", "walnut", "raisin"),
        ("flavor", "weight"),
        (*SNACK, "dry roasted|raw", "resealable bag", "no added oil"),
        _EAT,
    ),
    Kind(
        "ground coffee",
        ("grocery", "drinks", "coffee"),
        (8, 45),
        ("arabica", "robusta"),
        ("flavor", "weight"),
        ("dark roast|medium roast|light roast", "fair trade", "usda organic", "decaf|caffeinated", "single origin", "low acid"),
        ("early mornings", "the office", "guests", "camping"),
    ),
    Kind(
        "herbal tea bags",
        ("grocery", "drinks", "tea"),
        (4, 30),
        ("chamomile", "peppermint", "ginger", "rooibos"),
        ("flavor", "pack"),
        ("caffeine free|low caffeine", "fair trade", "usda organic", "individually wrapped", "no added sugar", "kosher certified"),
        ("evenings", "the office", "guests", "cold days"),
    ),
    Kind(
        "pasta sauce",
        ("grocery", "pantry", "sauces"),
        (4, 28),
        ("tomato", "basil", "roasted garlic"),
        ("pack", "weight"),
        (*SNACK, "fat free|low fat", "ready to eat", "no preservatives"),
        ("family dinners", "quick lunches", "guests", "the pantry"),
    ),
)
_ELECTRONICS = (
    Kind(
        "wireless headphones",
        ("electronics", "audio", "headphones"),
        (20, 260),
        ("plastic", "aluminum"),
        ("color",),
        (*DEVICE, "noise cancelling", "over ear|on ear|in ear", "hands free", "stereo sound"),
        _TECH,
    ),
    Kind(
        "bluetooth speaker",
        ("electronics", "audio", "speakers"),
        (15, 180),
        ("fabric", "plastic", "aluminum"),
        ("color",),
        (*DEVICE, "hands free", "stereo sound", "built in microphone", "long battery life"),
        _TECH,
    ),
    Kind(
        "usb c cable",
        ("electronics", "accessories", "cables"),
        (5, 40),
        ("braided nylon", "rubber"),
        ("color", "cable length", "pack"),
        (*DEVICE, "high speed", "gold plated", "tangle free"),
        _TECH,
    ),
    Kind(
        "phone case",
        ("electronics", "accessories", "cases"),
        (6, 50),
        ("silicone", "leather", "polycarbonate"),
        ("color",),
        ("wireless charging", "shock proof", "slim fit|heavy duty", "card holder", "glass screen protector included", "non slip"),
        _TECH,
    ),
    Kind(
        "tablet computer",
        ("electronics", "computers", "tablets"),
        (90, 620),
        ("aluminum", "plastic"),
        ("color", "storage"),
        (*DEVICE, "high resolution|full hd", "quad core|octa core", "dual camera", "stylus included"),
        _TECH,
    ),
    Kind(
        "security camera",
        ("electronics", "video", "cameras"),
        (25, 240),
        ("plastic", "metal"),
        ("color", "pack"),
        (*DEVICE, "night vision", "motion detection", "full hd|ultra hd", "two way audio"),
        ("the front door", "the garden", "the office", "the nursery"),
    ),
)
_HOUSE = (
    Kind(
        "throw pillow covers",
        ("home", "bedroom", "pillows"),
        (8, 45),
        ("velvet", "linen", "cotton"),
        ("color", "dimensions", "pack"),
        ("machine washable|spot clean", "hidden zipper", "double sided", "super soft", "fade resistant", "geometric print|floral print"),
        _ROOMS,
    ),
    Kind(
        "bed sheet set",
        ("home", "bedroom", "bedding"),
        (25, 140),
        ("microfiber", "egyptian cotton", "bamboo viscose"),
        ("color", "bed size"),
        ("machine washable|spot clean", "deep pocket", "wrinkle free", "super soft", "fade resistant", "breathable"),
        ("hot sleepers", "guest rooms", "all seasons", "families"),
    ),
    Kind(
        "coffee table",
        ("home", "living room", "tables"),
        (60, 420),
        ("solid wood", "engineered wood", "glass", "steel"),
        ("finish",),
        (*HOME, "storage shelf", "mid century|farmhouse style", "round|rectangular"),
        _ROOMS,
    ),
    Kind(
        "floor lamp",
        ("home", "living room", "lighting"),
        (30, 190),
        ("steel", "bamboo", "marble"),
        ("color", "finish"),
        (*HOME, "dimmable", "energy efficient", "foot switch|remote control"),
        _ROOMS,
    ),
    Kind(
        "storage ottoman",
        ("home", "living room", "seating"),
        (35, 210),
        ("faux leather", "linen", "velvet"),
        ("color", "dimensions"),
        (*HOME, "foldable", "high density foam", "button tufted"),
        _ROOMS,
    ),
    Kind(
        "bar stools",
        ("home", "dining room", "seating"),
        (45, 320),
        ("solid wood", "steel", "faux leather"),
        ("color", "finish"),
        (*HOME, "adjustable height", "swivel seat", "footrest"),
        ("the kitchen", "home bars", "small apartments", "guests"),
    ),
    Kind(
        "area rug",
        ("home", "living room", "rugs"),
        (30, 380),
        ("wool", "jute", "polypropylene"),
        ("color", "dimensions"),
        ("stain resistant", "non slip", "low pile|high pile", "fade resistant", "pet friendly", "geometric print|floral print"),
        _ROOMS,
    ),
    Kind(
        "scented candle",
        ("home", "decor", "candles"),
        (6, 45),
        ("soy wax", "beeswax"),
        ("scent", "pack", "weight"),
        ("long lasting", "lead free wick", "hand poured", "eco friendly", "smoke free", "gift box included"),
        _ROOMS,
    ),
)

KINDS = (*_FASHION, *_BEAUTY, *_GROCERY, *_ELECTRONICS, *_HOUSE)
